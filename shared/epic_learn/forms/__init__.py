"""Forms filled from a memory (EMG-RAG, section 5)."""

from epic_learn.forms.fields import Field, FilledField, FilledForm, Form
from epic_learn.forms.filling import fill

__all__ = ["Field", "FilledField", "FilledForm", "Form", "fill"]
