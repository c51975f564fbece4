"""How memory travels between clones: selection, import through a quarantine, publication, tips, bundles."""
