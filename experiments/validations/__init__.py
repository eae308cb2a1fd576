"""Validations against theory, published figures and recordings."""
