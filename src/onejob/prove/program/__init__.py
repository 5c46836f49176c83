"""Any program, in real processes: killed, frozen, doubled and started again, its effects counted.

It never says "proved". It says what was tried, and shows the shortest history that broke something.
"""
