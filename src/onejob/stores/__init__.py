"""Stores: where commands are carried out.

A store is a catalogue of texts plus one ``run(command, within=None)``. Stores are synchronous;
``threaded`` gives any of them to a loop.
"""
