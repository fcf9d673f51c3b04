// The talk's microphone, whichever way its sound goes: how it is opened, whether it is muted, what was wished of it.
//
// open() -> MediaStream, silent from its first sample while muted. mute(on) holds for what is open and what will be.
// wish(name, on) -> whether the open microphone does so now; kept in this browser. close(stream) gives it back.
// FastRTC's component opens its microphone itself: what it asks for is marked (page.py), and it is given ours while a
// talk wants one, else an empty stream, so that no microphone stays open between talks.
// Must not know: sockets, peers, buttons.

const config = window.personaplexConfig;
const KEY = "personaplex-microphone";
export const WISHES = ["echoCancellation", "noiseSuppression", "autoGainControl"];

let muted = false;
let wanted = false; // by FastRTC's component
const open_tracks = new Set();
const wishes = { ...config.microphone, ...kept() };

function kept() {
  try {
    const told = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return Object.fromEntries(WISHES.filter((name) => typeof told?.[name] === "boolean").map((name) => [name, told[name]]));
  } catch {
    return {}; // nothing is kept, or may be
  }
}

// For getUserMedia, as the visitor wishes it now.
export const constraints = () => ({ audio: { ...wishes } });

export const wished = (name) => wishes[name];

export const isMuted = () => muted;

// Those that are open now.
export const tracks = () => live();

export async function open() {
  const stream = await navigator.mediaDevices.getUserMedia(constraints());
  for (const track of stream.getAudioTracks()) {
    track.enabled = !muted;
    open_tracks.add(track);
    track.addEventListener("ended", () => document.dispatchEvent(new Event("personaplex-microphone-gone"))); // not by us
  }
  return stream;
}

export function close(stream) {
  for (const track of stream.getTracks()) {
    track.onended = null;
    track.stop();
  }
}

export function mute(on) {
  muted = on;
  for (const track of live()) track.enabled = !on;
}

// Keeps the wish; true where every open microphone does so at once.
export async function wish(name, on) {
  wishes[name] = on;
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(WISHES.map((one) => [one, wishes[one]]))));
  } catch {
    // it holds until the page is left
  }
  const obeyed = await Promise.all(live().map((track) => obeys(track, name)));
  return obeyed.every(Boolean);
}

async function obeys(track, name) {
  await track.applyConstraints({ ...wishes }).catch(() => {});
  return track.getSettings()[name] === wishes[name];
}

function live() {
  for (const track of open_tracks) if (track.readyState === "ended") open_tracks.delete(track);
  return [...open_tracks];
}

// Whether FastRTC's component gets a microphone when it asks.
export function give(on) {
  wanted = on;
}

function hook() {
  const devices = navigator.mediaDevices;
  if (!devices) return;
  const original = devices.getUserMedia.bind(devices);
  devices.getUserMedia = async (asked) => {
    if (!asked?.audio?.personaplex) return original(asked);
    return wanted ? open() : new MediaStream();
  };
}

hook();
