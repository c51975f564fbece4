"""The door for people and scripts: parse, call the service, render. No rule of the protocol is decided here."""
