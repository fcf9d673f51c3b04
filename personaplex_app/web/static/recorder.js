// Records a clip from the microphone, without loss: a WAV of 24 kHz, mono, 16 bit.
//
// record({base, mostSeconds, onLevel, onEnd}) -> {stop(): Blob}; stop may be called once, and by itself it never is.
// onLevel(amplitude, seconds): about ten times a second. onEnd(): the time is up, or the microphone was taken away.
// Errors are getUserMedia's. Must not know: the page, what becomes of the clip.

const RATE_HZ = 24000;
const BYTES = 2;
const HEADER_BYTES = 44;
const TELL_SAMPLES = RATE_HZ / 10;
// Sound as it is in the room, but loud enough; there is no loudspeaker's echo to take out.
const MICROPHONE = { echoCancellation: false, noiseSuppression: true, autoGainControl: true, channelCount: 1 };

export async function record({ base, mostSeconds, onLevel, onEnd }) {
  await import("./socket_sound.js");
  const pieces = [];
  let samples = 0;
  let loudest = 0;
  let toldAt = 0;
  const take = (sound) => {
    if (samples >= mostSeconds * RATE_HZ) return;
    const pcm = new Int16Array(sound);
    pieces.push(pcm);
    samples += pcm.length;
    loudest = pcm.reduce((most, sample) => Math.max(most, Math.abs(sample)), loudest);
    if (samples - toldAt < TELL_SAMPLES) return;
    onLevel(loudest / 32768, samples / RATE_HZ);
    toldAt = samples;
    loudest = 0;
    if (samples >= mostSeconds * RATE_HZ) onEnd();
  };
  const sound = await window.personaplexSound.start({ constraints: { audio: MICROPHONE }, base, send: take, onEnded: onEnd });
  return {
    stop: () => {
      sound.stop();
      return wav(pieces, Math.min(samples, mostSeconds * RATE_HZ));
    },
  };
}

function wav(pieces, samples) {
  const bytes = new ArrayBuffer(HEADER_BYTES + BYTES * samples);
  writeHeader(new DataView(bytes), BYTES * samples);
  const pcm = new Int16Array(bytes, HEADER_BYTES);
  let at = 0;
  for (const piece of pieces) {
    const fits = piece.subarray(0, samples - at);
    pcm.set(fits, at);
    at += fits.length;
  }
  return new Blob([bytes], { type: "audio/wav" });
}

function writeHeader(view, length) {
  const text = (at, letters) => [...letters].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, HEADER_BYTES - 8 + length, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // mono
  view.setUint32(24, RATE_HZ, true);
  view.setUint32(28, RATE_HZ * BYTES, true);
  view.setUint16(32, BYTES, true);
  view.setUint16(34, 8 * BYTES, true);
  text(36, "data");
  view.setUint32(40, length, true);
}
