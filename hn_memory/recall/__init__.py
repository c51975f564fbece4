"""From a request to a page: selection by gates, order, budgets, cursor and receipt."""
