"""What buffers are known to hold at each place, and which of their elements are overwritten before they are read.

`graph` cuts a statement into control-flow blocks, `touches` says which elements an access touches, `forward` and
`backward` search for what holds at the ends of the blocks, and `analysis` answers questions about statements.
"""
