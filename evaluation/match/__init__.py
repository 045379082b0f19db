"""Matches: players made from a short text, paired openings, games side by side, Elo with its error."""
