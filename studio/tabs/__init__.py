"""One module a tab: it makes the tab's widgets and says which of them cause what."""
