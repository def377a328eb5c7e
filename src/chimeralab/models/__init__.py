"""Language models behind one seam: ask with a request, get a reply."""
