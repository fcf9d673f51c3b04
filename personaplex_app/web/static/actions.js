// What can be done with the chosen persona: its buttons, the form for a name, and what is told of it.
//
// In: the choice, and `onKept` for when what this browser keeps has changed. Must not know: how cards look.

import { t } from "./i18n.js";
import { button, part, tell } from "./parts.js";
import { copyLink, exportFile, importFile } from "./sharing.js";
import * as yours from "./yours.js";

export class Actions {
  // choice: a Choice. onKept(): shows the personas anew. standIn(): the voice for those who may not have one's own.
  constructor({ choice, onKept, standIn }) {
    Object.assign(this, { choice, onKept, standIn });
    this.shown = "";
    part("import").onclick = () => part("import-file").click();
    part("import-file").onchange = () => this.attempt(() => this.bringIn());
    part("naming").onsubmit = (event) => { event.preventDefault(); this.attempt(() => this.named()); };
    part("naming-leave").onclick = () => this.leaveNaming();
    part("naming").onkeydown = (event) => { if (event.key === "Escape") this.leaveNaming(); };
  }

  // The buttons for what is chosen now; they are made anew only where they are others than before.
  show({ kind } = {}) {
    const edited = this.choice.edited;
    const own = kind === "own";
    const state = `${kind} ${edited && own}`;
    if (!kind || state === this.shown) return;
    this.shown = state;
    const focused = document.activeElement?.dataset?.does;
    const does = (name, text, run) => button(text, () => this.attempt(run), { dataset: { does: name } });
    const buttons = [does("link", t("Copy link"), () => this.link())];
    if (own && edited) buttons.push(does("save", t("Save changes"), () => this.saveChanges()));
    if (own) buttons.push(does("rename", t("Rename"), () => this.askName("rename")));
    buttons.push(does("copy", own ? t("Duplicate") : t("Save as mine"), () => this.askName("copy")));
    if (own) buttons.push(does("delete", t("Delete"), () => this.remove()));
    buttons.push(does("export", t("Export"), () => this.export()));
    part("chosen").replaceChildren(...buttons);
    if (focused) buttons.find((one) => one.dataset.does === focused)?.focus();
  }

  async attempt(run) {
    try {
      await run();
    } catch (error) {
      tell("told", error.message, { bad: true });
    }
  }

  async link() {
    const { kind, persona } = this.choice.current;
    const id = kind === "library" && !this.choice.edited ? persona.id : "";
    tell("told", await copyLink(this.choice.now(), id, this.standIn()));
  }

  async export() {
    tell("told", await exportFile(this.choice.now(), this.standIn()));
  }

  saveChanges() {
    this.take(yours.replace(this.choice.current.persona.id, this.choice.now()));
    tell("told", t("Your changes are kept in this browser."));
  }

  // The form for a name: of the chosen one, or of a copy.
  askName(purpose) {
    this.purpose = purpose;
    const { kind, persona } = this.choice.current;
    tell("told", "");
    part("naming").hidden = false;
    part("naming-title").value = purpose === "copy" && kind === "own" ? t("{title}, copy", { title: persona.title }) : persona.title;
    part("naming-title").focus();
    part("naming-title").select();
  }

  leaveNaming() {
    part("naming").hidden = true;
    part("chosen").querySelector(`[data-does=${this.purpose}]`)?.focus();
  }

  named() {
    const title = part("naming-title").value.trim();
    if (!title) return;
    const { persona } = this.choice.current;
    if (this.purpose === "rename") this.take(yours.replace(persona.id, { ...persona, title }));
    else this.take(yours.keep({ ...this.choice.now(), title }));
    this.leaveNaming();
    tell("told", t("“{title}” is kept in this browser, and nowhere else.", { title }));
  }

  remove() {
    const { persona } = this.choice.current;
    yours.forget(persona.id);
    this.choice.name({ kind: "guest", key: "", persona });
    this.onKept();
    part("search").focus();
    tell("told", t("“{title}” is deleted.", { title: persona.title }), {
      does: t("Bring it back"),
      run: () => this.attempt(() => this.take(yours.replace(persona.id, persona))),
    });
  }

  async bringIn() {
    const [file] = part("import-file").files;
    if (!file) return;
    part("import-file").value = "";
    const persona = await importFile(file);
    await this.bring(persona, t("“{title}” came in and is kept in this browser.", { title: persona.title }));
  }

  // Keeps a persona that came in and chooses it; where nothing can be kept it is chosen all the same.
  async bring(persona, sentence) {
    let entry = { kind: "guest", key: "", persona };
    let refused = "";
    try {
      const mine = yours.keep(persona);
      entry = { kind: "own", key: `own:${mine.id}`, persona: mine };
    } catch (error) {
      refused = error.message;
    }
    await this.choice.take(entry);
    this.onKept();
    tell("told", refused || sentence, { bad: Boolean(refused) });
  }

  // What the boxes hold is kept under this name from now on.
  take(mine) {
    this.choice.name({ kind: "own", key: `own:${mine.id}`, persona: mine });
    this.onKept();
  }
}
