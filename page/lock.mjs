// Removes addresses from package-lock.json. npm has a setting for that, but it also leaves out the versions of packages for
// other platforms, and `npm ci` then refuses the file.
import { readFileSync, writeFileSync } from "node:fs";

const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
for (const entry of Object.values(lock.packages)) delete entry.resolved;
writeFileSync("package-lock.json", JSON.stringify(lock, null, 2) + "\n");
