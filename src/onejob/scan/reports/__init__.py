"""How a scan is shown: text, JSON, SARIF, Markdown and HTML. Each takes a scan, returns a text."""
