"""A server with the tool of a script, for `test_mcp`: it writes down which calls are made."""

import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

from tests.integrations.scripted import Script


def main(kind: str, log: str) -> None:
    script = Script(kind)

    class Answers(Script):
        """What the tool gives back, by how often it has been called."""

        def _step(self) -> Any:
            return script._kind(self.asked, False)

        def answer(self) -> str:
            self.asked += 1
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(f"{self.asked}\n")
            if kind == "fails":
                raise ValueError(f"no row {self.asked} in the table")
            return self._step().result

        def look(self, page: int) -> str:
            said = self.answer()
            return said if page == 1 or kind != "recovers" else f"row {page}"

    server = MCPServer("scripted")
    server.tool()(Answers(kind).tool)
    server.run("stdio")


if __name__ == "__main__":
    main(*sys.argv[1:])
