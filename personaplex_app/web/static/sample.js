// One look at a talk's way: what the server told last, what the browser's own counters say. Totals, taken apart later.
//
// In: a Call, the server's last `health` message with the time it came. Out: a flat sample, null where nobody knows.
// Must not know: thresholds, words, the page.

import { tracks } from "./microphone.js";

const PIECE_MS = 20;
const BYTES_A_MS = 48; // PCM16 at 24 kHz
const SAMPLES_A_MS = 48; // of what a peer plays
const STALE_MS = 1500; // a report that comes five times a second

const NOTHING = {
  given_ms: null, up_sent: null, up_lost: null, down_received: null, down_lost: null, jitter_ms: null,
  player_ms: null, buffered_ms: null, buffer_left: null, gap_ms: null, unsent_ms: null, awake: null,
};

export async function sampleOf(call, { health, told_at, message_at }) {
  const at = performance.now();
  const way = call.path === "socket" ? ofSocket(call, at) : await ofPeer(call.rtc.peer);
  return {
    at,
    path: call.path,
    told_at,
    silent_ms: at - message_at,
    microphone: microphone(),
    ...health,
    ...NOTHING,
    round_trip_ms: call.line.roundTripMs,
    ...way,
    late_ms: health.late_ms,
  };
}

function microphone() {
  const open = tracks();
  if (open.length === 0) return "ended";
  return open.some((track) => !track.muted) ? "live" : "muted";
}

function ofSocket({ line, report, sound }, at) {
  const unsent = line.socket ? line.socket.bufferedAmount / BYTES_A_MS : null;
  const base = { given_ms: line.said * PIECE_MS, unsent_ms: unsent };
  if (!report || !sound) return base;
  return {
    ...base,
    awake: sound.running && at - report.at < STALE_MS,
    player_ms: report.waiting_ms,
    gap_ms: report.filled * PIECE_MS,
  };
}

async function ofPeer(peer) {
  if (!peer || peer.connectionState !== "connected") return {};
  const found = {};
  let pair = null;
  (await peer.getStats()).forEach((entry) => {
    if (entry.kind === "audio") found[entry.type] = entry;
    if (entry.type === "candidate-pair" && entry.nominated && entry.state === "succeeded") pair = entry;
  });
  return { ...sent(found), ...received(found["inbound-rtp"]), ...roundTrip(found["remote-inbound-rtp"], pair) };
}

function sent({ "outbound-rtp": outbound, "remote-inbound-rtp": arrived, "media-source": source }) {
  return {
    given_ms: source?.totalSamplesDuration === undefined ? null : 1000 * source.totalSamplesDuration,
    up_sent: outbound?.packetsSent ?? null,
    up_lost: arrived?.packetsLost ?? null,
  };
}

function received(inbound) {
  if (!inbound) return {};
  return {
    down_received: inbound.packetsReceived ?? null,
    down_lost: inbound.packetsLost ?? null,
    jitter_ms: inbound.jitter === undefined ? null : 1000 * inbound.jitter,
    buffered_ms: 1000 * (inbound.jitterBufferDelay ?? 0),
    buffer_left: inbound.jitterBufferEmittedCount ?? null,
    gap_ms: Math.max(0, (inbound.concealedSamples ?? 0) - (inbound.silentConcealedSamples ?? 0)) / SAMPLES_A_MS,
  };
}

function roundTrip(arrived, pair) {
  const seconds = arrived?.roundTripTime ?? pair?.currentRoundTripTime;
  return seconds === undefined ? {} : { round_trip_ms: 1000 * seconds };
}
