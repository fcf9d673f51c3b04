// "Check my set-up": microphone, loudspeaker, round trip, path and the engine's speed, a sentence for each.

import { isRelayed } from "./candidates.js";
import { t, translated } from "./i18n.js";
import { Line } from "./line.js";
import { microphoneWords, WORDS } from "./words.js";

const TONE_HZ = 1000;
const TONE_MS = 900;
const LISTEN_MS = 1500;
const PINGS = 5;
const PATH_MS = 8000;
const GATHER_MS = 2500;
const ANSWER_MS = 5000;
const FRAME_MS = 80;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const decibels = (amplitude) => 20 * Math.log10(Math.max(amplitude, 1e-6));
const within = (promise, ms) => Promise.race([promise, wait(ms).then(() => Promise.reject(new Error("too late")))]);

export async function checkSetUp({ base, show }) {
  const found = [];
  const add = (sentence) => { found.push(sentence); show(found.join("\n")); };
  show(t("Checking ..."));
  await checkSound(add);
  await checkServer(base, add);
  return found;
}

// Microphone and loudspeaker: no processing, so that the level and the leak are the room's.
async function checkSound(add) {
  if (!navigator.mediaDevices) return add(t("Microphone: {words}", { words: WORDS.insecure }));
  const plain = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: plain });
  } catch (error) {
    return add(t("Microphone: {words}", { words: microphoneWords(error) }));
  }
  const context = new AudioContext();
  try {
    await context.resume();
    const ear = context.createAnalyser();
    ear.fftSize = 4096;
    context.createMediaStreamSource(stream).connect(ear);
    const quiet = await listen(context, ear, LISTEN_MS);
    add(levelWords(quiet.loudest));
    const loud = await playTone(context, () => listen(context, ear, TONE_MS));
    add(leakWords(loud.tone, quiet.tone));
  } finally {
    stream.getTracks().forEach((track) => track.stop());
    await context.close();
  }
}

// The loudest window's level and the strongest share of the probe tone, as amplitudes.
async function listen(context, ear, ms) {
  const window = new Float32Array(ear.fftSize);
  let loudest = 0;
  let tone = 0;
  for (const end = performance.now() + ms; performance.now() < end; await wait(60)) {
    ear.getFloatTimeDomainData(window);
    loudest = Math.max(loudest, Math.sqrt(window.reduce((sum, sample) => sum + sample * sample, 0) / window.length));
    tone = Math.max(tone, share(window, TONE_HZ, context.sampleRate));
  }
  return { loudest, tone };
}

// One frequency's amplitude in a window, with a Hann taper.
function share(window, hz, rate) {
  let real = 0;
  let imaginary = 0;
  for (let i = 0; i < window.length; i += 1) {
    const taper = 1 - Math.cos((2 * Math.PI * i) / window.length);
    real += window[i] * taper * Math.cos((2 * Math.PI * hz * i) / rate);
    imaginary += window[i] * taper * Math.sin((2 * Math.PI * hz * i) / rate);
  }
  return (2 * Math.hypot(real, imaginary)) / window.length;
}

const TONE_LEVEL = 0.25;

async function playTone(context, during) {
  const oscillator = context.createOscillator();
  const gain = context.createGain();
  oscillator.frequency.value = TONE_HZ;
  gain.gain.setValueAtTime(0, context.currentTime);
  gain.gain.linearRampToValueAtTime(TONE_LEVEL, context.currentTime + 0.02);
  oscillator.connect(gain).connect(context.destination);
  oscillator.start();
  const heard = await during();
  gain.gain.linearRampToValueAtTime(0, context.currentTime + 0.02);
  oscillator.stop(context.currentTime + 0.05);
  return heard;
}

export function levelWords(level) {
  const db = decibels(level);
  const shown = db.toFixed(0);
  if (db < -85) return t("Microphone: it is silent. Is it muted, or the wrong one?");
  if (db < -55) return t("Microphone: quiet ({shown} dB at most). Speak during the check, or come closer.", { shown });
  if (db > -6) return t("Microphone: very loud ({shown} dB); turn it down, or it will distort.", { shown });
  return t("Microphone: good, {shown} dB at most.", { shown });
}

export function leakWords(during, before) {
  const leak = decibels(during) - decibels(TONE_LEVEL);
  const shown = leak.toFixed(0);
  if (during < 2 * before || leak < -60) {
    return t("Loudspeaker: the microphone does not hear it. If you heard the tone you wear headphones: good. If not, look at the volume.");
  }
  if (leak < -40) return t("Loudspeaker: it plays, and little of it reaches the microphone ({shown} dB).", { shown });
  return t("Loudspeaker: it plays, and the microphone hears it ({shown} dB). Wear headphones, or the persona will hear itself.", { shown });
}

// The server: round trip, path and speed over a socket of its own.
async function checkServer(base, add) {
  const answers = [];
  const wanted = [];
  const next = () => (answers.length ? Promise.resolve(answers.shift()) : new Promise((resolve) => wanted.push(resolve)));
  const line = new Line({
    base,
    onMessage: (message) => {
      if (!["pong", "check", "refused"].includes(message.type)) return;
      if (wanted.length) wanted.shift()(message);
      else answers.push(message);
    },
    onSound: () => {},
    onGone: () => {},
  });
  try {
    await line.open();
    const { tripMs, stepMs } = await ping(line, next);
    add(tripWords(tripMs));
    add(await pathWords(line, next));
    add(speedWords(stepMs));
  } catch {
    add(t("Server: {words}", { words: WORDS.unreachable }));
  } finally {
    line.close();
  }
}

async function ping(line, next) {
  const trips = [];
  let stepMs = 0;
  for (let count = 0; count < PINGS; count += 1) {
    line.send({ type: "ping", at: performance.now() });
    const pong = await within(next(), ANSWER_MS);
    trips.push(performance.now() - pong.at);
    stepMs = pong.step_ms;
    await wait(50);
  }
  return { tripMs: trips.sort((a, b) => a - b)[Math.floor(PINGS / 2)], stepMs };
}

export function tripWords(ms) {
  const trip = ms.toFixed(0);
  if (ms < 80) return t("Round trip to the server: {trip} ms: good.", { trip });
  if (ms < 250) return t("Round trip to the server: {trip} ms: answers come a little late.", { trip });
  return t("Round trip to the server: {trip} ms: the talk will lag. It is your network, not the GPU.", { trip });
}

export function speedWords(stepMs) {
  const values = { taken: stepMs < 0.1 ? t("less than 0.1") : stepMs.toFixed(stepMs < 10 ? 1 : 0), has: FRAME_MS };
  if (stepMs > FRAME_MS) return t("Engine: one step takes {taken} ms of the {has} it has: slower than real time here.", values);
  if (stepMs > 0.8 * FRAME_MS) return t("Engine: one step takes {taken} ms of the {has} it has: just fast enough.", values);
  return t("Engine: one step takes {taken} ms of the {has} it has: fast enough.", values);
}

async function pathWords(line, next) {
  const socket = t("Path: WebRTC does not connect from here. Your talk will travel over the socket, a little slower.");
  if (!window.RTCPeerConnection) return socket;
  line.send({ type: "check" });
  const start = await within(next(), 2 * ANSWER_MS);
  if (start.type !== "check") return t("Path: {words}", { words: translated(start.sentence) });
  const peer = new RTCPeerConnection({ iceServers: start.ice_servers });
  try {
    const channel = peer.createDataChannel("check");
    const back = new Promise((resolve) => {
      channel.onopen = () => channel.send("there and back");
      channel.onmessage = resolve;
    });
    line.send({ type: "check", sdp: await offer(peer) });
    const answer = await within(next(), 2 * ANSWER_MS);
    if (answer.type !== "check") return t("Path: {words}", { words: translated(answer.sentence) });
    await peer.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    await within(back, PATH_MS);
    const relayed = await isRelayed(peer);
    return relayed ? t("Path: WebRTC through a relay (TURN).") : t("Path: WebRTC, directly.");
  } catch {
    return socket;
  } finally {
    peer.close();
  }
}

async function offer(peer) {
  await peer.setLocalDescription(await peer.createOffer());
  const gathered = new Promise((resolve) => {
    peer.addEventListener("icegatheringstatechange", () => peer.iceGatheringState === "complete" && resolve());
  });
  if (peer.iceGatheringState !== "complete") await Promise.race([gathered, wait(GATHER_MS)]);
  return peer.localDescription.sdp;
}
