# SPDX-License-Identifier: Apache-2.0
"""Finds the declarations of a C++ header that lack a doc comment. Used by check_docs.py.

A scanner, not a compiler: it follows braces and semicolons, which the clang-formatted headers under
include/ never make ambiguous. It knows namespaces, classes with their access, enums and functions.
"""

import re

# In this order: documentation must survive as a mark, other comments and strings must not.
LEXEME = re.compile(
    r'(?P<number>(?<!\w)\d(?:\'?[\w.])*)'
    r'|(?P<trailing>///<[^\n]*|/\*\*<.*?\*/)'
    r'|(?P<doc>///[^\n]*|/\*\*.*?\*/)'
    r'|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*'
    r'|R"(?P<mark>[^()\\ \n]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL | re.MULTILINE)
ACCESS = re.compile(r"\s*(public|private|protected)\s*:(?!:)")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|alignas\s*\([^)]*\)")
KINDS = re.compile(r"\s*(?:export\s+)?(?:typedef\s+)?(?:inline\s+)?(namespace|class|struct|union|enum)\b")
MAX_SELF_EVIDENT_LINES = 5
NEVER_FUNCTIONS = re.compile(r"\s*(?:using|typedef|static_assert|friend|extern\s+template|concept)\b")


def split_documentation(text):
    """(code, doc_ends, trailing): comments and strings blanked; line numbers (from 0) on which a doc
    comment ends, and those that carry a trailing one."""
    doc_ends, trailing = set(), set()

    def blank(match):
        if match["number"]:
            return match[0]
        line = text.count("\n", 0, match.end())
        if match["trailing"]:
            trailing.add(line)
        elif match["doc"]:
            doc_ends.add(line)
        return re.sub(r"[^\n]", " ", match[0])

    return LEXEME.sub(blank, text), doc_ends, trailing


def matching(code, start, opening, closing):
    """The index just past the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(code)):
        depth += (code[index] == opening) - (code[index] == closing)
        if depth == 0:
            return index + 1
    return len(code)


def without_template(head):
    """The head after its template<…> and attributes."""
    head = ATTRIBUTE.sub(" ", head)
    while True:
        found = re.match(r"\s*template\s*(?=<)", head)
        if not found:
            return head
        head = head[matching(head, found.end(), "<", ">"):]


def function_name(head):
    """The name that a function head declares, or None if it declares no function."""
    head = without_template(head)
    if NEVER_FUNCTIONS.match(head):
        return None
    if re.search(r"\boperator\b", head):
        return "operator"
    before, parenthesis, after = head.partition("(")
    if not parenthesis or "=" in before or after.lstrip().startswith("*"):
        return None
    name = re.search(r"(~?\w+)\s*$", before)
    if not name or (name[1].isupper() and not before[:name.start()].strip()):
        return None  # a macro
    return name[1]


def needs_member_doc(head, name, owner, body):
    """Members whose meaning is in the class's own doc need none: constructors, operators, plain
    getters, and what is written out right there in a few lines."""
    if name in ("operator", owner) or name.startswith("~"):
        return False
    if re.search(r"\(\s*\)\s*const\b", head):
        return False
    return body is None or body.count("\n") > MAX_SELF_EVIDENT_LINES


class Scanner:
    """Collects (line, what) of undocumented declarations, one scope after the other."""

    def __init__(self, text):
        self.code, self.doc_ends, self.trailing = split_documentation(text)
        self.missing = []
        self.group_line = None  # last line of the documented declaration just read

    def line_of(self, index):
        return self.code.count("\n", 0, index)

    def require(self, start, head_end, end, what):
        """Notes a declaration without a doc above it, behind it, or above the group it stands in: one
        doc serves the declarations that follow it without an empty line."""
        first, last = self.line_of(start), self.line_of(end)
        documented = (first - 1 in self.doc_ends or self.line_of(head_end) in self.trailing
                      or first - 1 == self.group_line)
        if documented:
            self.group_line = last
        else:
            self.missing.append((first + 1, what))

    def scan(self, start, end, owner=None, is_public=True):
        """Reads the statements of one scope; `owner` is the class whose body it is."""
        index = start
        while index < end:
            access = ACCESS.match(self.code, index, end)
            if access and owner:
                is_public, index = access[1] == "public", access.end()
                continue
            first = index + re.match(r"[\s;]*", self.code[index:end]).end()
            if first >= end:
                return
            index = self.statement(first, end, owner, is_public)

    def statement(self, first, end, owner, is_public):
        """Reads one declaration from `first`; returns the index just past it."""
        index = first
        while index < end:
            char = self.code[index]
            if char in "([":
                index = matching(self.code, index, char, ")" if char == "(" else "]")
            elif char == ";":
                self.declaration(first, index, None, owner, is_public)
                return index + 1
            elif char == "{":
                close = matching(self.code, index, "{", "}")
                if self.block(first, index, close, owner, is_public):
                    return close
                index = close
            else:
                index += 1
        return end

    def block(self, first, opening, close, owner, is_public):
        """Handles a head with a {…}; False when the braces only initialize and the statement goes on."""
        head = self.code[first:opening]
        kind = KINDS.match(without_template(head))
        if re.match(r'\s*extern\s*$', head):
            self.scan(opening + 1, close - 1)
        elif kind and kind[1] == "namespace":
            if not re.search(r"\bdetail\b", head):
                self.scan(opening + 1, close - 1)
        elif kind and "(" not in ATTRIBUTE.sub(" ", head):
            self.type_definition(first, opening, close, kind[1], owner, is_public)
        elif re.match(r"\s*[,{]", self.code[close:close + 80]) or not function_name(head):
            return False
        else:
            self.declaration(first, opening, self.code[opening:close], owner, is_public)
        return True

    def type_definition(self, first, opening, close, kind, owner, is_public):
        head = without_template(self.code[first:opening])
        name = re.match(r".*?\b(?:class|struct|union|enum)\b(?:\s+(?:class|struct)\b)?\s*(\w*)", head,
                        re.DOTALL)[1]
        if not is_public or not name:
            return
        if kind == "enum":
            body = self.code[opening + 1:close - 1].split("\n")
            first_line = self.line_of(opening)
            explained = [first_line + i in self.trailing for i, line in enumerate(body) if line.strip()]
            if not owner and not all(explained):
                self.require(first, opening, close, f"enum {name}")
            return
        self.require(first, opening, close, f"{kind} {name}")
        group_line = self.group_line
        self.scan(opening + 1, close - 1, owner=name, is_public=kind != "class")
        self.group_line = group_line

    def declaration(self, first, end, body, owner, is_public):
        head = self.code[first:end]
        name = function_name(head)
        if name is None or not is_public or name == "operator":
            return
        if owner is None or needs_member_doc(head, name, owner, body):
            self.require(first, end, end + len(body or ""), f"function {name}")


def undocumented(text):
    """(line, what) of each public class, enum and function of a header that has no doc comment."""
    scanner = Scanner(text)
    scanner.scan(0, len(scanner.code))
    return sorted(scanner.missing)
