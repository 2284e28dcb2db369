"""Many registrations: their lists, what runs them, and what still counts of what was done."""
