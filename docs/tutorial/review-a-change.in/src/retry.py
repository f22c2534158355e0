def fetch(get):
    for attempt in range(3):
        try:
            return get()
        except OSError:
            pass
    raise TimeoutError
