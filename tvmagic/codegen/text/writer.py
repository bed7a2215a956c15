"""LLVM IR as text in the making: modules, functions, blocks and metadata.

The text goes to llvmlite's parser. Writing it is several times quicker than building it as
objects, and every construct of LLVM's language can be written.
"""

from __future__ import annotations


class ModuleText:
    """The text of one LLVM module: declarations, globals, functions, attributes, metadata."""

    def __init__(self, triple: str, data_layout: str, name: str = "tvmagic") -> None:
        self.triple = triple
        self.header = [f'source_filename = "{name}"', f'target datalayout = "{data_layout}"']
        self.header.append(f'target triple = "{triple}"')
        self.declarations: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.functions: list[str] = []
        self.helpers: dict[str, str] = {}
        self.metadata: list[str] = []
        self.named_metadata: list[str] = []
        self.imports: list[str] = []  # LLVM text, or files with it or with bitcode, to be linked in

    def declare(self, name: str, result: str, params: str, attributes: str = "") -> str:
        """Declare a function of another module; gives its name with `@`."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({params}) {attributes}".rstrip()
        return f"@{name}"

    def node(self, content: str | None = None) -> str:
        """A new metadata node; `content` may be given later with `define_node`."""
        self.metadata.append(content or "")
        return f"!{len(self.metadata) - 1}"

    def define_node(self, name: str, content: str) -> None:
        """What the metadata node `name` holds."""
        self.metadata[int(name[1:])] = content

    def text(self) -> str:
        """The whole module."""
        parts = [*self.header, "", *self.globals.values(), *self.declarations.values(), ""]
        parts += [*self.helpers.values(), *self.functions, *self.named_metadata]
        parts += [f"!{i} = {content or '!{}'}" for i, content in enumerate(self.metadata)]
        return "\n".join(parts) + "\n"


class FunctionText:
    """The text of one function: an entry block for what is done once, and the body's blocks.

    Instructions go to the current block; `op` gives the name of the new value.
    """

    def __init__(self, module: ModuleText, head: str) -> None:
        self.module = module
        self.head = head
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.block = "body"
        self.location = ""
        self._count = 0
        self._scratch: dict[tuple[str, int], str] = {}
        self._hidden: dict[tuple[str, str], str] = {}

    def name(self) -> str:
        """A new name of a value or block, without `%`."""
        self._count += 1
        return f"v{self._count}"

    def op(self, text: str) -> str:
        """Add an instruction with a result; gives the result's name."""
        name = f"%{self.name()}"
        self.lines.append(f"  {name} = {text}{self.location}")
        return name

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {text}{self.location}")

    def at_entry(self, text: str) -> str:
        """Add an instruction with a result to the entry block."""
        name = f"%{self.name()}"
        self.entry.append(f"  {name} = {text}")
        return name

    def scratch(self, kind: str, number: int) -> str:
        """A place on the stack for a value of type `kind` that is read back at once; the same for a `number`."""
        if (kind, number) not in self._scratch:
            self._scratch[kind, number] = self.at_entry(f"alloca {kind}, align 64")
        return self._scratch[kind, number]

    def hidden(self, kind: str, number: str) -> str:
        """A number whose value LLVM does not see; it costs a register."""
        if (kind, number) not in self._hidden:
            self._hidden[kind, number] = self.at_entry(f'call {kind} asm "", "=r,0"({kind} {number})')
        return self._hidden[kind, number]

    def new_block(self, hint: str) -> str:
        """The name of a block to come."""
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, block: str) -> None:
        """Let the instructions that follow go to `block`."""
        self.lines.append(f"{block}:")
        self.block = block

    def jump(self, block: str) -> None:
        self.do(f"br label %{block}")

    def branch(self, condition: str, then: str, other: str, metadata: str = "") -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{other}{metadata}")

    def text(self) -> str:
        """The whole function."""
        entry = "\n".join(["entry:", *self.entry, "  br label %body", "body:"])
        return "\n".join([f"{self.head} {{", entry, *self.lines, "}\n"])
