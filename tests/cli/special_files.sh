# Pipes, devices and folders where a file is expected: no waiting, and no device is replaced by a file.
set -eu
ember=$(realpath "$1")
folder=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
. "$folder/cli_folder.sh"
make_folder model
printf 'some text\n' > text.txt
mkfifo pipe.h5
mkdir folder.h5
ln -s /dev/full device.h5

# Readers. A command that waits for a writer of the pipe is killed, which is not code 1.
now="timeout -k 1 20"
for input in pipe.h5 folder.h5 device.h5; do
    fails_with 1 "$input: is not a regular file" $now "$ember" inspect $input
    fails_with 1 "$input: is not a regular file" $now "$ember" data info $input
    fails_with 1 "$input: is not a regular file" $now "$ember" eval $input text.txt
    fails_with 1 "$input: is not a regular file" $now "$ember" generate $input --prompt x
    for part in config.json model.safetensors tokenizer.json generation_config.json; do
        cp -r model broken
        rm -f broken/$part
        cp -a $input broken/$part
        fails_with 1 "broken/$part: is not a regular file" $now "$ember" import broken -o x.h5
        rm -r broken
    done
done

# Writers, with and without --force.
for output in pipe.h5 folder.h5 device.h5; do
    for force in "" --force; do
        fails_with 1 "$output" $now "$ember" import model -o $output $force
        fails_with 1 "$output" $now "$ember" data prepare text.txt --tokenizer bytes -o $output $force
    done
done
[ -p pipe.h5 ] || { echo "the pipe was replaced"; exit 1; }
[ -d folder.h5 ] || { echo "the folder was replaced"; exit 1; }
[ -h device.h5 ] || { echo "the link to a device was replaced"; exit 1; }
fails_with 1 "standard output" sh -c "'$ember' import model -o good.h5 > /dev/full"
# Descriptors that the caller closed: what is printed goes nowhere, least of all into a file that is written.
code=0
"$ember" import model -o closed.h5 <&- >&- 2>&- || code=$?
[ "$code" = 1 ] || { echo "exit code $code with standard output closed"; exit 1; }
"$ember" inspect closed.h5 | grep -q " 0 damaged"
cp text.txt lines.jsonl
"$ember" data prepare lines.jsonl --tokenizer bytes -o noted.h5 <&- 2>&- > /dev/null
"$ember" data info noted.h5 > /dev/null
fails_with 1 "standard input" sh -c "'$ember' data prepare - --tokenizer bytes -o none.h5 <&-"
[ ! -e none.h5 ] || { echo "a shard without text"; exit 1; }
[ -z "$(find . -name '.*tmp*')" ] || { echo "temporary files are left"; exit 1; }
[ ! -e x.h5 ] || { echo "a refused import left x.h5"; exit 1; }
