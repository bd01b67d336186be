# SPDX-License-Identifier: BSD-3-Clause
"""The text of an answer as it grows: stop words, and characters that are split over tokens."""


def _incomplete_bytes(text):
    """How many bytes at the end begin a UTF-8 character whose rest may still come."""
    for back in range(1, min(3, len(text)) + 1):
        byte = text[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 2 if byte >> 5 == 6 else 3 if byte >> 4 == 14 else 4 if byte >> 3 == 30 else 1
        return back if needed > back else 0
    return 0


class TextStream:
    """Takes the bytes of tokens and gives text that nothing after it can change.

    A stop word is never given, nor is a part of one: the longest end of the text that may begin a stop word
    is held back. Bytes that are no UTF-8 become U+FFFD.
    """

    def __init__(self, stops=()):
        self._stops = [stop.encode("utf-8", "replace") for stop in stops]
        self._held = b""
        self._longest = max(map(len, self._stops), default=0)
        self.has_stopped = False  # a stop word came
        self.n_given = 0  # bytes

    def push(self, piece):
        """Returns the text that is certain now, often empty."""
        if not self._held and not self._stops and piece.isascii():
            self.n_given += len(piece)
            return piece.decode("ascii")
        text = self._held + piece
        if self._stops:
            at = self._find_stop(text)
            if at >= 0:
                self.has_stopped = True
                self._held = b""
                self.n_given += at
                return text[:at].decode("utf-8", "replace")
        keep = max(self._stop_begun(text), _incomplete_bytes(text))
        if self._stops and keep:  # a character must not be cut by the begin of a stop word
            keep += _incomplete_bytes(text[:-keep])
        self._held = text[len(text) - keep:]
        self.n_given += len(text) - keep
        return text[:len(text) - keep].decode("utf-8", "replace")

    def end(self):
        """Returns what was held back, after the last token."""
        text, self._held = self._held, b""
        self.n_given += len(text)
        return text.decode("utf-8", "replace")

    def _find_stop(self, text):
        found = [at for at in map(text.find, self._stops) if at >= 0]
        return min(found, default=-1)

    def _stop_begun(self, text):
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-size:]
            if any(stop.startswith(end) for stop in self._stops):
                return size
        return 0
