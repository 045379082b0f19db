"""Positions whose result is known, and how often a player's move loses that result."""
