/**
 * Read and set the inputs of an admin form, whatever widget draws them.
 *
 * An input is known by its name; its values are a list of texts: empty for an unticked box, several for a multiple
 * select. The scripts of the two-box selector and of select2 are told through the events they listen for.
 */

function named(form, name) {
  return [...form.elements].filter((one) => one.name === name && !/^(button|submit|image)$/.test(one.type));
}

function isTwoBox(select) {
  return select.tagName === "SELECT" && /_to$/.test(select.id) && window.SelectBox?.cache?.[select.id] !== undefined;
}

function isTicked(one) {
  return one.type === "checkbox" || one.type === "radio";
}

/** Find the elements that carry these input names. */
export function inputsOf(form, names) {
  return names.flatMap((name) => named(form, name));
}

/** Read one input's values and, for selects, the texts of its chosen options. */
export function readInput(form, name) {
  const values = [];
  const texts = [];
  for (const one of named(form, name)) {
    if (isTicked(one)) {
      if (one.checked) values.push(one.value);
    } else if (isTwoBox(one)) {
      for (const node of window.SelectBox.cache[one.id]) {
        values.push(node.value);
        texts.push(node.text);
      }
    } else if (one.tagName === "SELECT") {
      for (const option of one.selectedOptions) {
        values.push(option.value);
        texts.push(option.text);
      }
    } else {
      values.push(one.value);
    }
  }
  return [name, values, texts];
}

function setTwoBox(select, values, texts) {
  const { SelectBox, SelectFilter } = window;
  const id = select.id.replace(/_to$/, "");
  const from = `${id}_from`;
  const all = [...SelectBox.cache[from], ...SelectBox.cache[select.id]];
  values.forEach((value, at) => {
    if (!all.some((node) => node.value === value)) all.push({ value, text: texts[at] ?? value, displayed: 1 });
  });
  SelectBox.cache[select.id] = all.filter((node) => values.includes(node.value));
  SelectBox.cache[from] = all.filter((node) => !values.includes(node.value));
  SelectBox.redisplay(from);
  SelectBox.redisplay(select.id);
  SelectFilter?.refresh_icons?.(id);
}

function setSelect(select, values, texts) {
  const known = new Set([...select.options].map((option) => option.value));
  values.forEach((value, at) => {
    if (!known.has(value)) select.append(new Option(texts[at] || value, value));
  });
  for (const option of select.options) option.selected = values.includes(option.value);
  if (values.length === 0 && !select.multiple) {
    const empty = [...select.options].findIndex((option) => option.value === "");
    select.selectedIndex = empty;
  }
}

function setOne(one, values, texts, alone) {
  if (one.type === "checkbox" && alone) one.checked = values.length > 0;
  else if (isTicked(one)) one.checked = values.includes(one.value);
  else if (isTwoBox(one)) setTwoBox(one, values, texts);
  else if (one.tagName === "SELECT") setSelect(one, values, texts);
  else one.value = values[0] ?? "";
}

/** Set one input as [name, values, texts?]; texts name options that the page does not have yet, or `text` the only one. */
export function setInput(form, [name, values, given = []], { text = null } = {}) {
  const texts = values.length === 1 && !given[0] && text ? [text] : given;
  const found = named(form, name).filter((one) => one.type !== "file");
  for (const one of found) {
    setOne(one, values.map(String), texts.map(String), found.length === 1);
    one.dispatchEvent(new Event("input", { bubbles: true }));
    one.dispatchEvent(new Event("change", { bubbles: true }));
  }
}

/** Call back when the person changes one of these elements, also through select2 or the two boxes. */
export function watchInputs(elements, onChange) {
  for (const one of elements) {
    one.addEventListener("input", onChange);
    one.addEventListener("change", onChange);
    // select2 tells of a choice through jQuery alone.
    window.django?.jQuery?.(one).on("select2:select select2:unselect select2:clear", onChange);
    if (isTwoBox(one)) new MutationObserver(onChange).observe(one, { childList: true });
  }
}
