"""From a record to people: terminal, Markdown, JUnit, pictures."""
