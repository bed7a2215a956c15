"""What exists so that programs written for TVM run: names, operators and analyses that no other package uses.

Users reach it at TVM's names: `tvmagic.topi` is `tvmagic.compat.topi`. The table is in `tvmagic/__init__.py`. No other
package imports this one; the others work if this folder is missing.
"""
