"""Code that the LangChain and the LlamaIndex plugin share."""
