"""runnel.connectors"""
