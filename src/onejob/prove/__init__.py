"""Search for histories that break a promise: the production loops on virtual time, under faults.

A history is data, a checker is a pure function over it, and faults wrap the store from outside.
What comes out is what was tried, never "proved".
"""
