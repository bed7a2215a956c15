"""Walks over a program: visitor, mutator, and the functions made of them.

A functor declares what it does at a kind of node with `@handles(Add, Sub)`; every other node is
walked as its declared fields say. What to call is found in one table a class, filled when a kind
of node is first met; the walking functions are generated from the fields (`derive.py`), so that a walk costs
well under a microsecond a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, TypeVar

from tvmagic.ir import derive
from tvmagic.ir.buffer import Buffer
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.expr import CommReducer, PrimExpr, Var
from tvmagic.ir.node import Field, Kind, Node, Span, new_origin, parents_of_origins
from tvmagic.ir.prim_expr import class_of
from tvmagic.ir.stmt import AttrStmt, SeqStmt, Stmt

Handler = Callable[[Any, Any], Any]
_F = TypeVar("_F", bound=Callable[..., Any])
_N = TypeVar("_N", bound=Node)
_LEAVES: tuple[type, ...] = (CommReducer, Var)


def handles(*classes: type) -> Callable[[_F], _F]:
    """Mark a method as what a functor does at nodes of these classes and their subclasses."""

    def mark(method: _F) -> _F:
        method._handles = classes  # type: ignore[attr-defined]
        return method

    return mark


class _Table(dict[type, Handler]):
    """What a functor class calls for each class of node; found on first use."""

    def __init__(self, owner: type[_Functor]) -> None:
        super().__init__()
        self.owner = owner

    def __missing__(self, node_class: type) -> Handler:
        handler = self[node_class] = self.owner.handler_of(node_class)
        return handler


class _Functor:
    """What visitor and mutator share: the table, and which hooks a subclass has."""

    _declared: ClassVar[dict[type, Handler]] = {}
    _table: ClassVar[_Table]
    _walkers: ClassVar[dict[type, Handler]]
    HOOKS: ClassVar[tuple[str, ...]] = ("visit_var_def", "visit_buffer_def", "visit_buffer_use")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared: dict[type, Handler] = {}
        for base in reversed(cls.__mro__):
            own = [m for m in vars(base).values() if hasattr(m, "_handles")]
            for method in own:
                for node_class in method._handles:
                    # a subclass's word on a class of nodes outranks a base's word on its subclasses
                    for known in [c for c in declared if issubclass(c, node_class) and declared[c] not in own]:
                        del declared[known]
                    declared[node_class] = method
        cls._declared = declared
        cls._table = _Table(cls)
        cls._walkers = {}

    @classmethod
    def handler_of(cls, node_class: type) -> Handler:
        """What the functor declares for a class of nodes or the nearest of its bases; else its walker."""
        found = next((cls._declared[c] for c in node_class.__mro__ if c in cls._declared), None)
        return cls.walker(node_class) if found is None else found

    @classmethod
    def walker(cls, node_class: type) -> Handler:
        """The generated function that walks the declared fields of a class of nodes."""
        found = cls._walkers.get(node_class)
        if found is None:
            hooks = frozenset(h for h in cls.HOOKS if getattr(cls, h) is not getattr(cls.BASE, h))
            found = cls._walkers[node_class] = cls.GENERATOR(node_class, hooks)
        return found

    BASE: ClassVar[type]
    GENERATOR: ClassVar[Callable[[type, frozenset[str]], Handler]]

    def visit(self, node: Any) -> Any:
        """Do at `node` what the functor declares for its class."""
        return self._table[type(node)](self, node)

    def visit_children(self, node: object) -> Any:
        """Walk the fields of `node`, as if the functor declared nothing for its class."""
        return self.walker(type(node))(self, node)


def _fields(node_class: type[Any]) -> tuple[Field, ...]:
    walked = issubclass(node_class, Node) and not issubclass(node_class, _LEAVES)
    fields: tuple[Field, ...] = node_class.FIELDS if walked else ()
    return fields


@cache
def _generate_visitor(node_class: type, hooks: frozenset[str]) -> Handler:
    return derive.walker(node_class, _fields(node_class), hooks)


@cache
def _generate_mutator(node_class: type[Any], hooks: frozenset[str]) -> Handler:
    names: dict[str, Any] = {"mutate_all": mutate_all}
    if hasattr(node_class, "flatten"):  # a sequence: what became a sequence or nothing is joined or left out, as in TVM

        def rebuild(parts: tuple[Any, ...]) -> Any:
            return node_class.flatten(*parts)

        names["rebuild"] = rebuild
    return derive.rewriter(node_class, _fields(node_class), hooks, names)


def mutate_all(change: Callable[[Any], Any], items: tuple[Any, ...]) -> tuple[Any, ...]:
    """`change` applied to each item; the same tuple if nothing changed."""
    new = [change(item) for item in items]
    for a, b in zip(new, items):
        if a is not b:
            return tuple(new)
    return items


class Visitor(_Functor):
    """Visits every part of a program. Handlers return nothing; `visit_children` goes on."""

    GENERATOR = staticmethod(_generate_visitor)

    def visit_var_def(self, var: Any) -> Any:
        """Called at the definition of a variable, if a subclass has its own."""
        return var

    def visit_buffer_def(self, buffer: Any) -> Any:
        """Called at the definition of a buffer, if a subclass has its own."""
        return buffer

    def visit_buffer_use(self, buffer: Any) -> Any:
        """Called at each access of a buffer, if a subclass has its own."""
        return buffer


class Mutator(Visitor):
    """Rewrites a program. A handler returns the new node, or the same one if nothing changed.

    The three hooks give the variable or buffer to put in the place of the old one.
    """

    GENERATOR = staticmethod(_generate_mutator)
    INHERITS: ClassVar[bool] = True  # whether what a handler builds without a span gets that of the node it is for

    @classmethod
    def handler_of(cls, node_class: type) -> Handler:
        """As for visitors. What a handler builds without a span, for a node with an origin, gets that node's span."""
        found = super().handler_of(node_class)
        declared = found is not cls._walkers.get(node_class)
        keeps = cls.INHERITS and declared and getattr(node_class, "HAS_ORIGIN", False)
        return _keep_origin(found) if keeps else found


def _keep_origin(handler: Handler) -> Handler:
    """Return `handler` such that nodes that it creates without a location inherit the span of the visited node."""

    def rewrite(self: Any, node: Any) -> Any:
        mark = new_origin()
        new = handler(self, node)
        if new is not node and new is not None and node.span is not None:
            span = getattr(new, "span", None)
            if span is None or span.origin > mark and not span.line:
                _inherit(new, node.span, mark)
        return new

    return rewrite


def _inherit(new: Any, span: Span, mark: int) -> None:
    """Set `span` on nodes of `new` that were created after `mark` without a location. Stop at nodes that have one."""
    todo: list[Any] = [*new] if class_of(new) in (tuple, list) else [new]
    room = _INHERITING
    joined = parents_of_origins.get() or ()
    while todo:
        part = todo.pop()
        own = getattr(part, "span", None)
        if not isinstance(part, Node) or own is not None and (own or own.origin <= mark or own.origin in joined):
            continue
        if type(part) is SeqStmt:  # a long one is built again and again, around what was there
            todo += [s for s in part.seq if s.span is None or s.span.origin > mark]
            continue
        if own is not None:
            part.span = span
        is_stmt = isinstance(part, Stmt)
        room -= not is_stmt
        if is_stmt or (own is None and room > 0):
            for name, many in _child_fields(type(part)):
                todo += getattr(part, name) if many else [getattr(part, name)]


_INHERITING = 64  # operations around loads that are looked at: an expression may be large, and be there already


@cache
def _child_fields(node_class: type[Node]) -> tuple[tuple[str, bool], ...]:
    """The fields of a class with statements and expressions, and whether they hold tuples."""
    one, many = (Kind.EXPR, Kind.STMT), (Kind.EXPRS, Kind.STMTS)
    return tuple([(f.name, f.kind in many) for f in node_class.FIELDS if f.kind in one + many])


Visitor.BASE = Visitor


class StmtVisitor(Visitor):
    """A visitor of statements alone: it does not go into expressions."""

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> None:
        """No statement is in an expression."""


class StmtMutator(Mutator):
    """A mutator of statements alone: expressions stay as they are."""

    @handles(PrimExpr)
    def leaf(self, node: PrimExpr) -> PrimExpr:
        return node


class _PostOrder(Visitor):
    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call

    @handles(Node)
    def every(self, node: Node) -> None:
        self.visit_children(node)
        self.call(node)


class _PreOrder(Visitor):
    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call

    @handles(Node)
    def every(self, node: Node) -> None:
        if self.call(node) is not False:
            self.visit_children(node)


@deep
def post_order_visit(stmt: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on every node of `stmt`, children first."""
    _PostOrder(fvisit).visit(stmt)


@deep
def pre_order_visit(stmt: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on every node of `stmt`, parents first; False leaves the children out."""
    _PreOrder(fvisit).visit(stmt)


class BufferRemapper(Mutator):
    """A mutator of variables that also renews the buffers whose fields change with them."""

    def __init__(self) -> None:
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_buffer_use(self, buffer: Buffer) -> Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = self.remap(buffer)
        return found

    visit_buffer_def = visit_buffer_use

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Any:
        """A fact about a pointer is one about the pointer in its place; so is one about a buffer."""
        new = self.visit_children(node)
        subject: Any = node.node
        if isinstance(subject, Var):
            subject = self.visit(subject)
        elif isinstance(subject, Buffer):
            subject = self.visit_buffer_use(subject)
        return new if subject is node.node or not isinstance(subject, (Var, Buffer)) else new.with_(node=subject)

    def remap(self, buffer: Buffer) -> Buffer:
        """`buffer` with its data, shape, strides and offset mutated; itself if none changed."""
        data = self.visit(buffer.data)
        shape = mutate_all(self.visit, buffer.shape)
        strides = mutate_all(self.visit, buffer.strides)
        offset = self.visit(buffer.elem_offset)
        same = data is buffer.data and shape is buffer.shape and strides is buffer.strides
        if same and offset is buffer.elem_offset:
            return buffer
        if not isinstance(data, Var):
            data = buffer.data
        return buffer.replace(data=data, shape=shape, strides=strides, elem_offset=offset)


class _Substitute(BufferRemapper):
    def __init__(self, values: Callable[[Var], Any]) -> None:
        super().__init__()
        self.values = values

    @handles(Var)
    def var(self, var: Var) -> Any:
        value = self.values(var)
        return var if value is None else value


@deep
def substitute(node: Any, vmap: Mapping[Any, Any] | Callable[[Var], Any]) -> Any:
    """`node` with variables replaced by the values that `vmap` gives for them.

    `vmap` is a mapping, or a function that gives None for a variable to keep. Buffers whose
    pointer, shape, strides or offset name such a variable are replaced too.
    """
    if callable(vmap):
        return _Substitute(vmap).visit(node)
    if not vmap:
        return node
    from tvmagic.ir.expr import IterVar, expr

    values = {(k.var if isinstance(k, IterVar) else k): expr(v) for k, v in vmap.items()}
    return _Substitute(values.get).visit(node)


class _Transform(Mutator):
    def __init__(self, preorder: Any, postorder: Any, only: frozenset[str] | None) -> None:
        self.preorder, self.postorder, self.only = preorder, postorder, only

    @handles(Node)
    def every(self, node: Node) -> Any:
        if self.only is not None and type(node).__name__ not in self.only:
            return self.visit_children(node)
        if self.preorder is not None:
            replaced = self.preorder(node)
            if replaced is not None:
                return replaced
        node = self.visit_children(node)
        if self.postorder is not None:
            replaced = self.postorder(node)
            if replaced is not None:
                return replaced
        return node


@deep
def ir_transform(stmt: Any, preorder: Any, postorder: Any, only_enable: Any = None) -> Any:
    """Rewrite `stmt` by functions: what `preorder` gives (other than None) is in the node's
    place at once; else the children are transformed, then `postorder` is asked.

    `only_enable`: names of node classes (`tir.For`) to call the functions for; all by default.
    """
    only = frozenset(str(n).rsplit(".", 1)[-1] for n in only_enable) if only_enable else None
    return _Transform(preorder, postorder, only).visit(stmt)
