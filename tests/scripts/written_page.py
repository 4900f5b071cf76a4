# SPDX-License-Identifier: Apache-2.0
"""What tests of scripts that write a page share: `script(*arguments)` runs one, `page` is what it writes."""


class WrittenPage:
    def refused(self, *arguments, words):
        """One line on stderr that names `words`, and the page as it was."""
        before = self.page.read_text(encoding="utf-8")
        done = self.script(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(self.page.read_text(encoding="utf-8"), before)
