"""runnel.processors"""
