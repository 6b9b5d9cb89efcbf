"""runnel.testing"""
