"""The main job, shown live: a nightly email, several replicas, real processes, a real provider.

Four acts send the same 200 emails in four ways. The first three are what people have and what they
reach for; each of them sends duplicates, and why can be watched. The last one is onejob.
"""
