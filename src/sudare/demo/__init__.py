"""All five releases on made-up data, and one page about them."""
