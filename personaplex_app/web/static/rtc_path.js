// The WebRTC path: FastRTC's component on the page is pressed for the visitor, its peer connection watched.

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
    peer.addEventListener("connectionstatechange", () => {
      if (peer === this.peer && peer.connectionState === "failed") this.onFailed();
    });
  }

  // Brings the ticket and presses FastRTC's button; resolves when it is pressed, rejects where there is none.
  async start(ticket, iceServers) {
    this.iceServers = iceServers;
    setTicket(ticket);
    const grant = document.querySelector(GRANT);
    if (grant) grant.click();
    const button = await appears(START);
    await wait(POLL_MS);
    this.started = true;
    button.click();
  }

  stop() {
    if (!this.started) return;
    this.started = false;
    const peer = this.peer;
    this.peer = null;
    if (peer && peer.connectionState !== "closed") {
      const button = document.querySelector(START);
      if (button) button.click();
      peer.close();
    }
  }

  // "direct" or "relay", once a pair of candidates is chosen.
  async kind() {
    if (!this.peer || this.peer.connectionState !== "connected") return "";
    const report = await this.peer.getStats();
    const all = new Map();
    report.forEach((entry) => all.set(entry.id, entry));
    for (const entry of all.values()) {
      if (entry.type !== "transport" || !entry.selectedCandidatePairId) continue;
      const pair = all.get(entry.selectedCandidatePairId);
      const ends = [all.get(pair.localCandidateId), all.get(pair.remoteCandidateId)];
      return ends.some((end) => end && end.candidateType === "relay") ? "relay" : "direct";
    }
    return "";
  }
}

function setTicket(ticket) {
  const box = document.querySelector("#ticket textarea, #ticket input");
  box.value = ticket;
  box.dispatchEvent(new Event("input", { bubbles: true }));
}

async function appears(selector) {
  for (let waited = 0; waited < READY_MS; waited += POLL_MS) {
    const found = document.querySelector(selector);
    if (found && !found.disabled) return found;
    await wait(POLL_MS);
  }
  throw new Error(`there is no ${selector}`);
}
