"""Importers of what people have elsewhere: chats with assistants and people, notes, mails and documents."""
