"""The book of the five papers: what each published, beside ours, with a verdict for each claim."""
