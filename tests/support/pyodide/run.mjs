// Runs a Python program of this repository in Pyodide: node run.mjs PYODIDE_FOLDER REPOSITORY SITE_PACKAGES PROGRAM.
// NumPy is Pyodide's own if it can be loaded, else the stand-in beside this file.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, repository, packages, program] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")));
const python = await loadPyodide();
for (const [name, root] of Object.entries({ "/repository": repository, "/packages": packages })) {
  python.FS.mkdir(name);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, name);
}
let numpy = true;
try {
  await python.loadPackage("numpy", { messageCallback: () => {}, errorCallback: () => {} });
  python.runPython("import numpy; numpy.zeros(1)");
} catch {
  numpy = false;
}
python.globals.set("folders", python.toPy([numpy ? "" : "/repository/tests/support/pyodide", "/repository", "/packages"]));
await python.runPythonAsync(`
import os, runpy, sys
sys.path[:0] = [folder for folder in folders if folder]
sys.modules.pop("numpy", None)
os.environ.update(IPYTHONDIR="/tmp/ipython", TVMAGIC_TARGET="${process.env.TVMAGIC_TARGET ?? ""}")
runpy.run_path("/repository/${program}", run_name="__main__")
`);
