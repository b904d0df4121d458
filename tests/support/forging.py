"""Rows forged by somebody who knows how checksums and sums are made: all of them are right afterwards."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from epic_memory.storage.additions import memory_schema
from epic_memory.storage.codecs import checksum


def forge(path: Path, statement: str, *values: object) -> None:
    """Change a memory's file by a statement, and make all checksums and sums right."""
    with closing(sqlite3.connect(path)) as connection:
        memory_schema().keep_sums(connection)
        connection.execute(statement, values)
        for table in memory_schema().tables.values():
            row = "row" if table.numbered else table.checked[0]
            for column, covered in (("crc", table.checked), ("text_crc", table.texts)):
                if covered:
                    connection.create_function("checksum", len(covered), checksum)
                    found = f"SELECT {row}, {column}, checksum({', '.join(covered)}) FROM {table.name}"
                    for key, stored, right in connection.execute(found).fetchall():
                        if stored != right:
                            connection.execute(f"UPDATE {table.name} SET {column} = ? WHERE {row} IS ?", (right, key))
        connection.commit()
        memory_schema().check_sums(connection, path)
