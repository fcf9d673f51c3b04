// The WebRTC path: FastRTC's component on the page is pressed for the visitor, its peer connection watched.

import { isRelayed } from "./candidates.js";
import { close, give } from "./microphone.js";

const GRANT = "#call [title='grant webcam access'] button";
const START = "#call button[aria-label='start stream']";
const POLL_MS = 50;
const READY_MS = 6000;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class RtcPath {
  // onFailed(): the connection cannot come about, or broke.
  constructor({ onFailed }) {
    this.onFailed = onFailed;
    this.iceServers = [];
    this.peer = null;
    this.started = false;
    this.turn = 0;
    this.other = null; // the stream of a microphone that took another's place
    this.hook();
  }

  // FastRTC's component makes its own peer; the servers minted for this ticket are given to it here.
  hook() {
    const Original = window.RTCPeerConnection;
    if (!Original) return;
    const path = this;
    window.RTCPeerConnection = function (configuration, ...rest) {
      const given = (configuration && configuration.iceServers) || [];
      const peer = new Original({ ...configuration, iceServers: [...given, ...path.iceServers] }, ...rest);
      path.watch(peer);
      return peer;
    };
    window.RTCPeerConnection.prototype = Original.prototype;
    Object.setPrototypeOf(window.RTCPeerConnection, Original);
  }

  watch(peer) {
    this.peer = peer;
    const transceivers = peer.getTransceivers.bind(peer);
    // The component stops them one by one, which throws on a connection that is closed already.
    peer.getTransceivers = () => (peer.connectionState === "closed" ? [] : transceivers());
    peer.addEventListener("connectionstatechange", () => {
      if (peer === this.peer && peer.connectionState === "failed") this.onFailed();
    });
  }

  // Brings the ticket and presses FastRTC's button; resolves when it is pressed, rejects where there is none.
  async start(ticket, iceServers) {
    const turn = ++this.turn;
    this.iceServers = iceServers;
    setTicket(ticket);
    const grant = document.querySelector(GRANT);
    if (grant) grant.click();
    const button = await appears(START, isIdle);
    await wait(POLL_MS);
    if (turn !== this.turn) return; // it was stopped meanwhile
    this.started = true;
    give(true);
    button.click();
  }

  // Sends what another microphone hears, over the same connection.
  async send(stream) {
    const sender = this.peer?.getSenders().find(({ track }) => track?.kind === "audio");
    if (!sender) return close(stream);
    this.letGo();
    this.other = stream;
    await sender.replaceTrack(stream.getAudioTracks()[0]);
  }

  letGo() {
    if (this.other) close(this.other);
    this.other = null;
  }

  stop() {
    this.turn += 1;
    this.letGo();
    if (!this.started) return;
    this.started = false;
    this.peer = null;
    give(false);
    const button = document.querySelector(START);
    if (button && !isIdle(button)) button.click();
  }

  // The two tracks of a connection that stands: what is sent and what is received; null where there are none.
  tracks() {
    if (this.peer?.connectionState !== "connected") return null;
    const said = this.peer.getSenders().find(({ track }) => track?.kind === "audio")?.track;
    const heard = this.peer.getReceivers().find(({ track }) => track?.kind === "audio")?.track;
    return said && heard ? { said, heard } : null;
  }

  // "direct" or "relay", once a pair of candidates is chosen.
  async kind() {
    if (!this.peer || this.peer.connectionState !== "connected") return "";
    return (await isRelayed(this.peer)) ? "relay" : "direct";
  }
}

function setTicket(ticket) {
  const box = document.querySelector("#ticket textarea, #ticket input");
  box.value = ticket;
  box.dispatchEvent(new Event("input", { bubbles: true }));
}

// What the component's button says tells its state; `page.py` sets the words.
function isIdle(button) {
  return button.textContent.includes("start");
}

async function appears(selector, isReady) {
  for (let waited = 0; waited < READY_MS; waited += POLL_MS) {
    const found = document.querySelector(selector);
    if (found && !found.disabled && isReady(found)) return found;
    await wait(POLL_MS);
  }
  throw new Error(`there is no ${selector}`);
}
