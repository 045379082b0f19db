"""Strength on one scale: ratings from many games, Elo over training, Elo over search, openings."""
