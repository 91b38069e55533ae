"""Kernels of `gpulsh.backends.host`, which defines their results."""

from __future__ import annotations

import numpy as np

from gpulsh.backends.cpu.kernel import kernel
from gpulsh.backends.host import BEGIN, CLOSED, ESCAPE, PLAIN, QUOTED, RETURNED, STRING, VALUE

NEWLINE, RETURN, QUOTE, BACKSLASH, COMMA = 10, 13, 34, 92, 44
OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE = 91, 93, 123, 125


@kernel
def find_records(content, delimiter, state, ends):
    count = 0
    for at in range(content.size):
        byte = content[at]
        if state == RETURNED:
            state = BEGIN
            if byte == NEWLINE:
                ends[count] = at + 1
                count += 1
                continue
            ends[count] = at
            count += 1
        if state == QUOTED:
            if byte == QUOTE:
                state = CLOSED
        elif byte == QUOTE and state in (BEGIN, CLOSED):
            state = QUOTED
        elif byte == NEWLINE:
            ends[count] = at + 1
            count += 1
            state = BEGIN
        elif byte == RETURN:
            state = RETURNED
        else:
            state = BEGIN if byte == delimiter else PLAIN
    return count, state


@kernel
def count_line_ends(content):
    count = np.int64(content.size > 0 and (content[0] == NEWLINE or content[0] == RETURN))
    for at in range(1, content.size):  # without a branch, it takes many bytes at once
        count += (content[at] == RETURN) | ((content[at] == NEWLINE) & (content[at - 1] != RETURN))
    return count


@kernel
def fill_columns(content, begin, end, delimiter, first, count, values, offset, null, fields):
    filled = 0
    for row in range(begin.size):
        at, stop = begin[row], end[row]
        if stop > at and content[stop - 1] == NEWLINE:
            stop -= 1
        if stop > at and content[stop - 1] == RETURN:
            stop -= 1
        field, state, quoted = 0, BEGIN, False
        cell, last = row * count, (row + 1) * count
        wanted = first == 0
        while at < stop:
            byte = content[at]
            at += 1
            if state == QUOTED:
                if byte == QUOTE:
                    if at == stop or content[at] != QUOTE:
                        state = PLAIN
                        continue
                    at += 1
            elif byte == delimiter:
                if wanted:
                    null[cell] = filled == offset[cell] and not quoted
                    quoted = False
                    cell += 1
                    offset[cell] = filled
                field += 1
                wanted = field >= first and cell < last
                state = BEGIN
                continue
            elif state == BEGIN and byte == QUOTE:
                state = QUOTED
                quoted = wanted
                continue
            else:
                state = PLAIN
            if wanted:
                values[filled] = byte
                filled += 1
        while cell < last:
            null[cell] = filled == offset[cell] and not quoted
            quoted = False
            cell += 1
            offset[cell] = filled
        fields[row] = field + 1


@kernel
def find_elements(content, depth, within, ends):
    count = 0
    for at in range(content.size):
        byte = content[at]
        if within == STRING:
            if byte == QUOTE:
                within = VALUE
            elif byte == BACKSLASH:
                within = ESCAPE
        elif within == ESCAPE or byte == QUOTE:
            within = STRING
        elif byte in (OPEN_BRACKET, OPEN_BRACE):
            depth += 1
        elif byte in (CLOSE_BRACKET, CLOSE_BRACE):
            depth -= 1
            if depth == 0:
                ends[count] = at
                count += 1
                break
        elif byte == COMMA and depth == 1:
            ends[count] = at
            count += 1
    return count, depth, within
