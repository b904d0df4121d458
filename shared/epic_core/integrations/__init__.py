"""Integrations: what the LangChain and the LlamaIndex plugin share."""
