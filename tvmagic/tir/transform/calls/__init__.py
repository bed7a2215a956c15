"""How functions are called: TVM's packed and unpacked conventions, and the stacks that packed calls need."""
