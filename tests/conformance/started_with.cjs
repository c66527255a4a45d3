// What the npm servers are started with: they listen on 127.0.0.1 only, and their clock is ahead by what a file says.
"use strict";

const fs = require("node:fs");
const net = require("node:net");

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (first, ...more) {
  const where = typeof first === "object" ? first : { port: first };
  const ready = more.find((each) => typeof each === "function");
  return listen.call(this, { ...where, host: "127.0.0.1" }, ready);
};

let ahead_ms = 0;
setInterval(() => {
  ahead_ms = 1000 * Number(fs.readFileSync(process.env.SECONDS_AHEAD, "utf8"));
}, 20).unref();

const Machine = Date;
globalThis.Date = class Date extends Machine {
  constructor(...parts) {
    super(...(parts.length ? parts : [Date.now()]));
  }

  static now() {
    return Machine.now() + ahead_ms;
  }
};

const { timeOrigin } = performance;
Object.defineProperty(performance, "timeOrigin", { get: () => timeOrigin + ahead_ms });
