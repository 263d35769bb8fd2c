"""Tools and MCP: the wire between an environment and an agent."""
