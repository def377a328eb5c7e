"""Inside the frameworks of others: each module needs one package more, which an extra brings."""
