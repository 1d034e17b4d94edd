"""Campaigns: what made or judged a stored table, and ran once or for hours. No part of the wheel; the
product imports nothing of it. Each folder has a README with its question, answer, date, commit and
command.
"""
