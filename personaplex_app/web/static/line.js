// The talk's socket: opens it, parses what comes, pings, and tells when it is gone. Knows nothing of sound or the page.

const PING_MS = 5000;
const OPEN_MS = 8000;
const TELL_PIECES = 6; // of sound, before the server is told that they came

export class Line {
  // base: address of the routes, ending in a slash. onMessage(object), onSound(ArrayBuffer), onGone().
  constructor({ base, onMessage, onSound, onGone }) {
    this.url = base.replace(/^http/, "ws") + "socket";
    Object.assign(this, { onMessage, onSound, onGone });
    this.socket = null;
    this.roundTripMs = null;
    this.heard = 0;
  }

  get isOpen() {
    return this.socket !== null && this.socket.readyState === WebSocket.OPEN;
  }

  // Resolves once the socket is open; rejects where it does not open in time.
  open() {
    if (this.isOpen) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(this.url);
      socket.binaryType = "arraybuffer";
      this.socket = socket;
      const late = setTimeout(() => socket.close(), OPEN_MS);
      socket.onopen = () => {
        clearTimeout(late);
        this.pings = setInterval(() => this.send({ type: "ping", at: performance.now() }), PING_MS);
        resolve();
      };
      socket.onmessage = (event) => this.take(event.data);
      socket.onclose = () => {
        clearTimeout(late);
        clearInterval(this.pings);
        if (this.socket !== socket) return;
        this.socket = null;
        reject(new Error("the socket did not open"));
        this.onGone();
      };
    });
  }

  take(received) {
    if (typeof received !== "string") return this.takeSound(received);
    const message = JSON.parse(received);
    if (message.type === "admitted") this.heard = 0;
    if (message.type === "pong") this.roundTripMs = performance.now() - message.at;
    this.onMessage(message);
  }

  takeSound(bytes) {
    this.heard += 1;
    if (this.heard % TELL_PIECES === 0) this.send({ type: "ping", at: performance.now(), heard: this.heard });
    this.onSound(bytes);
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
  }

  sendSound(bytes) {
    // What the network does not take is not piled up: 300 ms of sound at most wait here.
    if (this.isOpen && this.socket.bufferedAmount < 14400) this.socket.send(bytes);
  }

  close() {
    const socket = this.socket;
    this.socket = null;
    clearInterval(this.pings);
    if (socket) socket.close(1000);
  }
}
