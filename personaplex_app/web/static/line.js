// The talk's socket: opens it, parses what comes, pings, and tells when it is gone. Knows nothing of sound or the page.

const PING_MS = 2000;
const DEAD_MS = 5000; // a live server answers every ping
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
    this.said = 0; // pieces of sound that were to be sent, ever
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
        this.unanswered = 0;
        this.pings = setInterval(() => this.ping(), PING_MS);
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

  // A network that went away leaves the socket open for minutes; an answer that does not come tells.
  ping() {
    const now = performance.now();
    if (this.unanswered && now - this.unanswered > DEAD_MS) {
      this.close();
      return this.onGone();
    }
    this.unanswered = this.unanswered || now;
    this.send({ type: "ping", at: now });
  }

  take(received) {
    this.unanswered = 0;
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
    this.said += 1;
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
