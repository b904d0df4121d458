"""Facts of the user: held whatever the preferences are, edited by what is said later, and found by what they answer."""
