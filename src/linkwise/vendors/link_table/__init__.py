"""Tables of links as tools print them: layout, cells and the matrix they make."""
