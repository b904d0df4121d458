"""Forms filled from a memory, and reminders of what it holds about coming days (EMG-RAG, section 5)."""

from epic_learn.forms.fields import Field, FilledField, FilledForm, Form
from epic_learn.forms.filling import fill
from epic_learn.forms.reminders import Due, due

__all__ = ["Due", "Field", "FilledField", "FilledForm", "Form", "due", "fill"]
